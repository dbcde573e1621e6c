"""What `import fairbench` offers; `fairbench.__all__` has the names that are stable."""
