"""Model of the feed of offers: random schedules, a service that follows them, a checker, and a naive loop."""
