"""What a program is, read from models and graphs before anything is built."""
