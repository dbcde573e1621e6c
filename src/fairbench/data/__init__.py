"""Data: where it comes from (`sources`) and in which order a trial sees it (`batches`)."""
