"""Parts that the pages share: requests and forms, templates, charts, formatting, and error pages."""
