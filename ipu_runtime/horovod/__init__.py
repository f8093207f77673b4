"""`ipu.horovod`: where PopDistStrategy was before SDK 3.0."""
