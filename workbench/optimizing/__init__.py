"""The best plan for a goal: which settings there are, and which are worth trying."""
