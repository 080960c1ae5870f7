"""A cluster of tens of workers as a model: CPU and load are numbers, and the services' cores make the decisions."""
