"""Datasets: sources, preparation, splits and batches."""
