"""A trained model outside its training: retrieval, weight files, features of new pictures."""
