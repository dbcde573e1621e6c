"""FairBench: compares optimizers on equal terms and says only what the data supports."""
