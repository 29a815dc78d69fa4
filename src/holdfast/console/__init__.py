"""The console: a web app over the API, served by the same process."""
