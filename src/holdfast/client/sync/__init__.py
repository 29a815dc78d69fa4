"""The client without async, generated from the async one."""
