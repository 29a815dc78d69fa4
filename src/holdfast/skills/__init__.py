"""Skills: their file format, the official ones, the catalog of a run, and the choice by relevance."""
