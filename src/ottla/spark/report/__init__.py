"""The report at the end of a long run: an HTML file that contains its figures, or a PNG file with the charts."""
