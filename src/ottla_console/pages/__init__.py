"""The pages of the console: a module for each subject. A handler gets a `Page` (the request) and returns a response."""
