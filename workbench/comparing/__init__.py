"""What sets runs apart: names, changed fields, and what each change costs."""
