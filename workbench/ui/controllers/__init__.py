"""What is done with the experiment and with runs, without a screen of its own."""
