"""Verdicts on anyone's table: its rows, what its columns are, the values of its runs, and their comparisons."""
