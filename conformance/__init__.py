"""Window cases with their rules: what rows go in, what a query asks, and what must come out."""
