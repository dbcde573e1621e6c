"""From archives and hub files to arrays: `fairbench data`."""
