"""What the plan is asked about a program, and what it answers."""
