"""What all coordinators share: their log, its loading, and what a decision results in."""
