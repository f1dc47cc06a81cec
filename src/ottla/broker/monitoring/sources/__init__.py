"""Functions that return the values of the metrics from one `Scrape`, in one module per subject."""
