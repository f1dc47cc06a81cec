"""Parts that all pages share: requests and forms, templates, charts, errors."""
