"""The durable store: one set of operations, written once, over the SQL of two databases."""
