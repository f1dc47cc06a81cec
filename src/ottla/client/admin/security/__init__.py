"""ACLs, delegation tokens, SCRAM users."""
