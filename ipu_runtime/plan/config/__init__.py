"""Every setting of the device as one declaration, and what it means to the model."""
