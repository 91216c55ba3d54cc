"""An HTTP server over a published query: lookups as JSON, with their description in OpenAPI."""
