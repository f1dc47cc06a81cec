"""Parts that all pages share: requests and forms, templates, charts, and error pages."""
