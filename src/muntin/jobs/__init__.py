"""Jobs: a file says where rows come from, what is asked of them and where results go."""

from muntin.jobs.job import Job, read_job
from muntin.jobs.sections import JobError

__all__ = ["Job", "JobError", "read_job"]
