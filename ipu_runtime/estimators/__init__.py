"""What the two IPU estimators are made of."""
