"""What all coordinators share: the runtime, its log, its loading, and results."""
