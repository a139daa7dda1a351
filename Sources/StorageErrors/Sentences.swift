extension Classification {
  /// A language that people read.
  public enum Language: String, CaseIterable, Sendable {
    /// en
    case english = "en"
    /// ja
    case japanese = "ja"
  }

  /// For people: what has happened, to which file, and what to do.
  public func sentence(_ language: Language) -> String {
    let what = category.sentence(language)
    let place = name.map { language == .english ? "“\($0)”: " : "「\($0)」: " } ?? ""
    guard let advice = advice(language) else { return place + what }
    return place + what + (language == .english ? " " : "") + advice
  }

  /// The last name of the file.
  private var name: String? {
    cause.file?.split(separator: "/", omittingEmptySubsequences: true).last.map(String.init)
  }

  /// What has to change is the category's to say where only that helps.
  private func advice(_ language: Language) -> String? {
    switch (retry, language) {
    case (.never, _): category.remedy(language)
    case (.afterReconnect, .english): "Connect it again, then try again."
    case (.afterReconnect, .japanese): "接続し直してから、もう一度お試しください。"
    case (.afterFreeingSpace, .english): "Free some space, then try again."
    case (.afterFreeingSpace, .japanese): "空き容量を増やしてから、もう一度お試しください。"
    case (.reopenThenRetry, .english): "Open it again and repeat from the beginning."
    case (.reopenThenRetry, .japanese): "開き直して、最初からやり直してください。"
    case (.withBackoff, .english): "Try again in a moment."
    case (.withBackoff, .japanese): "しばらくしてから、もう一度お試しください。"
    case (.afterUserAction, .english): "Sign in or switch the storage on in the settings, then try again."
    case (.afterUserAction, .japanese): "設定でサインインするか、保存先を有効にしてから、もう一度お試しください。"
    }
  }
}

extension Classification.Category {
  fileprivate func sentence(_ language: Classification.Language) -> String {
    language == .english ? texts.english : texts.japanese
  }

  private var texts: (english: String, japanese: String) {
    switch self {
    case .disconnected: ("The storage cannot be reached.", "保存先に接続できません。")
    case .staleHandle:
      ("The file has been replaced, or the storage was reconnected.", "ファイルが置き換えられたか、保存先が再接続されました。")
    case .ioFailure: ("Reading or writing failed.", "読み込みまたは書き込みに失敗しました。")
    case .notFound: ("The file or its folder does not exist.", "ファイルまたはフォルダが見つかりません。")
    case .exists: ("There is already an item of that name.", "同じ名前の項目がすでにあります。")
    case .notEmpty: ("The folder is not empty.", "フォルダが空ではありません。")
    case .wrongKind: ("It is a folder where a file is needed, or the other way round.", "ファイルとフォルダの種類が合いません。")
    case .noPermission: ("You have no permission for that.", "この操作を行う権限がありません。")
    case .notAuthenticated: ("You are not signed in to the storage.", "保存先にサインインしていません。")
    case .outOfSpace: ("There is no space left.", "空き容量が足りません。")
    case .readOnly: ("The storage is read-only.", "保存先は読み取り専用です。")
    case .providerUnavailable: ("The storage's provider is not available.", "ストレージの提供元を利用できません。")
    case .notMaterialized: ("The file is not downloaded.", "ファイルがダウンロードされていません。")
    case .busy: ("It is in use, or the system is busy.", "使用中か、システムが混み合っています。")
    case .cancelled: ("It was cancelled.", "キャンセルされました。")
    case .nameNotRepresentable: ("The storage cannot hold that name.", "保存先ではその名前を使用できません。")
    case .conflict: ("It has been changed elsewhere in the meantime.", "ほかの場所で変更されています。")
    case .corrupt: ("What is stored is damaged.", "保存されているデータが壊れています。")
    case .tooLarge: ("The file is too large for the storage.", "ファイルが保存先の上限を超えています。")
    case .unsupported: ("The storage cannot do that.", "保存先はこの操作に対応していません。")
    case .invalidCall: ("The app made a mistake.", "アプリの処理に誤りがあります。")
    case .unknown: ("An unknown error occurred.", "不明なエラーが発生しました。")
    }
  }

  fileprivate func remedy(_ language: Classification.Language) -> String? {
    let texts: (english: String, japanese: String)? =
      switch self {
      case .exists, .nameNotRepresentable: ("Choose another name.", "別の名前を選んでください。")
      case .notFound: ("Check that it is still there.", "まだ存在するか確認してください。")
      case .noPermission: ("Choose another place, or ask its owner.", "別の保存先を選ぶか、所有者に確認してください。")
      case .readOnly, .tooLarge, .unsupported: ("Choose another place.", "別の保存先を選んでください。")
      case .notMaterialized: ("Download it first.", "先にダウンロードしてください。")
      case .notEmpty: ("Remove or move what is in it first.", "先に中の項目を移動するか削除してください。")
      case .corrupt: ("Restore it from a backup.", "バックアップから復元してください。")
      default: nil
      }
    return texts.map { language == .english ? $0.english : $0.japanese }
  }
}
