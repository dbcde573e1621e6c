"""A session of changes to a training program: kept provisionally, and certified as a stack."""
