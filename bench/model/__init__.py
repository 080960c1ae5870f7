"""A cluster of tens of workers as a model: CPU and load are numbers, what is decided comes from the services' cores."""
