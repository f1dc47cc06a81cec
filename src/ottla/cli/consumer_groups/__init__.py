"""`ottla consumer-groups` and `ottla streams-application-reset`."""
