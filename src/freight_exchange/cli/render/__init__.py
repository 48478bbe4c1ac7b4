"""Output for terminals and for programs."""
