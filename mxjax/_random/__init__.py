"""Seeds and streams of random numbers."""
