"""What the device refuses, and how many replicas there are."""
