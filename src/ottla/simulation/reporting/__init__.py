"""Reports: coverage over many runs, and smaller plans and short stories for runs that broke a promise."""
