from tensorflow.python import ipu
