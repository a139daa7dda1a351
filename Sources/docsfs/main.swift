print("docsfs")
