"""A figure is a module with a function `figure(bench)`: which arms there are, what is measured, what is divided, and the goal."""
