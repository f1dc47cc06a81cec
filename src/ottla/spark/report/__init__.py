"""What is shown at the end of long work: a report as one HTML file with its chart inside."""
