"""People who come with a token of their own issuer (OpenID Connect) in place of a key."""
