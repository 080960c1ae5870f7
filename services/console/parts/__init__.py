"""Parts of pages: each makes HTML of a picture. They hold no state and know nothing of NiceGUI."""
