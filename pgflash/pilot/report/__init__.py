"""The report: one HTML file that needs nothing else, and a Markdown summary. figures/ has one file for each figure."""
