"""What the page shows: one file a panel, created once and updated in place."""
