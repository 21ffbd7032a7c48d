"""What belongs on flash for good: advice, moves with a journal, tiers by age. docs/place.md has the model."""
