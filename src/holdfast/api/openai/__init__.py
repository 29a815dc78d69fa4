"""Chat completions over HTTP, as clients of OpenAI's API know them."""
