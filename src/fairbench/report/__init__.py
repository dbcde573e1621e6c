"""From the analyses of a study to files, pages and terminals."""
