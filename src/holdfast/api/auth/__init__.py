"""Authentication, authorization and rate limits: the middleware in front of every route."""
