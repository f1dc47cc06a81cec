"""Random and damaged bytes against everything that reads bytes from outside."""
